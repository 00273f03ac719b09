"""What people run: the demo and its pictures. Needs the extra `demo` (scikit-learn, matplotlib, tqdm)."""
