"""The layers of the package: who may import whom, and what `import torchcoreset` leaves alone."""

from __future__ import annotations

import ast
import functools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import torchcoreset
from tests.processes import run
from torchcoreset import public

ROOT = Path(__file__).resolve().parents[1]
NAME = "torchcoreset"
PACKAGE = ROOT / NAME

# What all layers stand on.
GROUND = ("errors", "names", "tensors", "archives", "html", "deterministic", "modes")
# Each layer, and the layers below it that it may import; a layer may always import itself.
MAY_IMPORT = {
    "errors": set(),
    "names": set(),
    "tensors": {"errors"},
    "archives": {"errors"},
    "html": set(),
    "deterministic": set(),
    "modes": set(),
    "sources": {*GROUND},
    "transport": {*GROUND},
    "losses": {*GROUND, "sources", "transport"},
    "coresets": {*GROUND, "sources", "transport", "losses"},
    # What certifies does not see the losses and loops that it certifies.
    "guarantees": {*GROUND, "sources", "transport"},
    # Planning builds and certifies: it stands on both.
    "planning": {*GROUND, "sources", "transport", "losses", "coresets", "guarantees"},
    # Pictures read attributes of what they draw, and no more.
    "pictures": {"errors"},
    "app": {
        *GROUND,
        *("sources", "transport", "losses", "coresets", "guarantees", "planning", "pictures", "testing", NAME),
    },
    # The estimator is one more face of the library, for scikit-learn; nothing imports it.
    # The public names of costs, of which transport knows.
    "costs": {"transport"},
    "sklearn": {*GROUND, "sources", "transport", "losses", "coresets"},
    "testing": set(),
}
# The same for the rooms of a layer that has some. Modules beside a room may import it, and be imported from it.
ROOMS_MAY_IMPORT = {
    "transport/costs": set(),
    "transport/passes": {"costs"},
    "transport/flow": {"passes"},
    "transport/dual": {"passes", "flow"},
    "transport/marginals": set(),
    "transport/relaxed": {"passes", "flow", "marginals"},
    "transport/stream": {"costs", "passes", "dual", "flow", "reductions"},
    "transport/entropic": {"costs", "passes", "dual", "reductions"},
    "transport/solving": {"costs", "passes", "dual", "flow", "reductions"},
    "transport/presolve": {"costs", "passes", "reductions", "solving"},
    "transport/ranks": {"costs", "passes", "dual", "flow", "stream", "solving"},
    "transport/batched": {"costs", "marginals"},
    "transport/reductions": set(),
    "sources/labels": set(),
    "sources/tables": {"labels"},
    "sources/batches": {"tables"},
    "sources/files": {"tables"},
    "coresets/samples": set(),
    "coresets/start": {"algorithms", "samples"},
    "coresets/build": {"algorithms", "rows", "samples", "start"},
    "coresets/algorithms": {"samples"},
    "coresets/labeled": {"build", "rows", "samples", "start"},
    "coresets/parts": {"build", "labeled", "start"},
    "coresets/rows": {"algorithms", "samples"},
    "guarantees/bounds": set(),
    "guarantees/evaluation": {"bounds"},
    "guarantees/optimality": {"bounds"},
    "app/settings": set(),
    "app/stored": {"settings"},
    "app/files": {"settings", "stored"},
    "app/commands": {"files", "settings", "stored"},
}
MOST_FILES = 9  # of a folder, beside its __init__
# The public face stands on top of all layers; inside the package, only app may import it.
TOP = {"__init__", "__main__", "public"}

# Installed or not, none of these may be imported with the library: they are slow, optional or both.
HEAVY = [
    *("matplotlib", "sklearn", "tqdm", "pandas", "pykeops", "triton", "geomloss", "ot", "yaml"),
    *("pyarrow", "lightning", "tensorboard", "jsonargparse", "safetensors"),
]


@functools.cache
def nodes(source: str) -> tuple[ast.AST, ...]:
    """All nodes of a file's syntax tree, which several tests walk."""
    return tuple(ast.walk(ast.parse(source)))


def imported_modules(source: str, package: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of every import in a file of `package`, at any depth and under TYPE_CHECKING too.

    `from m import a` yields "m.a", since a may be a module: the layer is the same either way.
    """
    for node in nodes(source):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level + 1]) if node.level else []
            base += node.module.split(".") if node.module else []
            for alias in node.names:
                yield node.lineno, ".".join([*base, alias.name])


def layer_of(module: str) -> str | None:
    """The layer that a dotted name belongs to: None outside the package, NAME for the package itself."""
    head, _, rest = module.partition(".")
    if head != NAME:
        return None
    part = rest.partition(".")[0]
    return part if part in MAY_IMPORT else NAME


def forbidden_imports(source: str, path: Path) -> list[str]:
    """What is wrong with the imports of a file at `path`, relative to the package, one line for each."""
    layer = path.parts[0].removesuffix(".py")
    package = (NAME, *path.parts[:-1])
    if layer in TOP:
        allowed = {*MAY_IMPORT, NAME}
    else:
        allowed = {layer, *MAY_IMPORT[layer]}
    wrong = []
    for line, module in imported_modules(source, package):
        target = layer_of(module)
        if target is not None and target not in allowed:
            wrong.append(f"{NAME}/{path.as_posix()}:{line}: {layer} may not import {module}")
    return wrong


def package_files() -> list[Path]:
    return sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))


def test_every_module_belongs_to_a_layer() -> None:
    parts = {path.parts[0].removesuffix(".py") for path in package_files()}
    unknown = parts - TOP - MAY_IMPORT.keys()
    assert not unknown, f"no layer is known for {sorted(unknown)}: add it to MAY_IMPORT on purpose"


def test_imports_go_down() -> None:
    files = [path for path in package_files() if path.parts[0].removesuffix(".py") in TOP | MAY_IMPORT.keys()]
    wrong = [line for path in files for line in forbidden_imports((PACKAGE / path).read_text("utf-8"), path)]
    assert not wrong, "\n".join(["imports against the layers:", *wrong])


def folder_of(module: str) -> str:
    return module.rpartition(".")[0]


@functools.cache
def modules() -> dict[str, Path]:
    """All modules of the package by their dotted names; a package has that of its folder."""
    return {".".join((NAME, *path.with_suffix("").parts)).removesuffix(".__init__"): path for path in package_files()}


@functools.cache
def exported(folder: str) -> list[str]:
    """`__all__` of a package, as its face writes it."""
    for node in ast.parse((PACKAGE / modules()[folder]).read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def internal_imports(name: str, path: Path) -> Iterator[tuple[int, str]]:
    """(line, dotted name of the module) of what a module imports from the package."""
    known = modules()
    package = tuple((name if path.name == "__init__.py" else folder_of(name)).split("."))
    for line, imported in imported_modules((PACKAGE / path).read_text("utf-8"), package):
        folder = folder_of(imported)
        if folder in known and imported.rpartition(".")[2] in exported(folder):
            yield line, folder  # a function may have the name of its module
        elif imported in known or folder in known:
            yield line, imported if imported in known else folder


def past_a_face(name: str, target: str) -> bool:
    """Whether a module reaches for another inside a folder that it is not in: it may name the folder only."""
    folder = folder_of(target)
    is_package = modules()[target].name == "__init__.py"
    return not is_package and not f"{name}.".startswith(f"{folder}.")


def test_nothing_outside_a_folder_imports_past_its_face() -> None:
    wrong = [
        f"{NAME}/{path}:{line}: {target} is inside a folder; import from {folder_of(target)}"
        for name, path in modules().items()
        for line, target in internal_imports(name, path)
        if past_a_face(name, target)
    ]
    assert not wrong, "\n".join(wrong)


def test_rooms_import_downwards() -> None:
    wrong = []
    for name, path in modules().items():
        room = "/".join(path.parts[:2])
        for line, target in internal_imports(name, path) if room in ROOMS_MAY_IMPORT else ():
            other = target.split(".")[1:3]
            inside = len(other) == 2 and "/".join(other) in ROOMS_MAY_IMPORT and other[0] == path.parts[0]
            if inside and "/".join(other) != room and other[1] not in ROOMS_MAY_IMPORT[room]:
                wrong.append(f"{NAME}/{path}:{line}: {room} may not import {target}")
    assert not wrong, "\n".join(wrong)


def test_every_room_is_known_and_small_and_says_what_it_is() -> None:
    folders = {path.parent for path in package_files()}
    rooms = {folder.as_posix() for folder in folders if len(folder.parts) == 2}
    assert rooms == ROOMS_MAY_IMPORT.keys()
    for folder in folders:
        files = [path for path in package_files() if path.parent == folder and path.name != "__init__.py"]
        assert len(files) <= MOST_FILES, f"{folder}: {len(files)} files; make rooms of some"
        face = ast.parse((PACKAGE / folder / "__init__.py").read_text("utf-8"))
        assert ast.get_docstring(face), f"{folder}: its face says nothing"


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("sources/a.py", "from torchcoreset.transport import b"),
        ("sources/a.py", "from torchcoreset import transport"),
        ("sources/a.py", "import torchcoreset.transport.b as b"),
        ("sources/a.py", "from ..transport.b import f"),
        ("sources/a.py", "from .. import transport"),
        ("sources/deep/a.py", "from ...transport import b"),
        ("sources/__init__.py", "from ..transport import b"),
        ("errors.py", "from .sources import a"),
        ("errors.py", "from . import sources"),
        ("transport/a.py", "def f():\n    from ..sources import b"),
        ("guarantees/a.py", "if TYPE_CHECKING:\n    from ..coresets.coreset import Coreset"),
        ("guarantees/a.py", "from torchcoreset import Coreset"),
        ("losses/a.py", "import torchcoreset as tc"),
        ("coresets/a.py", "from torchcoreset.guarantees import certify"),
        ("guarantees/a.py", "from ..planning import size_for"),
        ("testing/a.py", "from ..errors import E"),
        ("testing/a.py", "import torchcoreset"),
    ],
)
def test_a_forbidden_import_is_seen(path: str, source: str) -> None:
    assert len(forbidden_imports(source, Path(path))) == 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("sources/a.py", "import torch\nfrom . import b\nfrom .b import f\nfrom ..errors import E"),
        ("losses/a.py", "from ..transport import b\nfrom torchcoreset.errors import E"),
        ("guarantees/a.py", "from .. import sources, transport"),
        ("app/a.py", "import torchcoreset as tc\nfrom torchcoreset.coresets import Coreset"),
        ("testing/a.py", "import torch\nfrom .b import f"),
        ("__init__.py", "from .coresets import Coreset\nfrom . import testing"),
        ("sources/a.py", "import torchcoreset_extras"),
    ],
)
def test_an_allowed_import_passes(path: str, source: str) -> None:
    assert forbidden_imports(source, Path(path)) == []


# What torch makes on the default device, unless told where. Generators are on the CPU.
FACTORIES = {
    "arange", "as_tensor", "asarray", "empty", "eye", "full", "linspace", "logspace", "ones", "rand", "randint",
    "randn", "randperm", "scalar_tensor", "sparse_coo_tensor", "sparse_csr_tensor", "tensor", "tril_indices",
    "triu_indices", "zeros",
}  # fmt: skip
# Buffers of a module that has seen no points are on the default device, as torch's own modules make them.
ON_DEFAULT = {"losses/coreset_loss.py"}


def undecided(source: str) -> list[int]:
    """Lines that make a tensor wherever the user's default device is."""
    return [
        node.lineno
        for node in nodes(source)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and (node.func.value.id, node.func.attr in FACTORIES) == ("torch", True)
        and all(keyword.arg != "device" for keyword in node.keywords)
    ]


def test_every_new_tensor_says_where_it_is() -> None:
    found = [
        f"{path}:{line}: name the device, or a user's default device reaches inside"
        for path in package_files()
        if path.as_posix() not in ON_DEFAULT
        for line in undecided((PACKAGE / path).read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


def test_a_new_tensor_without_a_device_is_seen() -> None:
    assert undecided("x = torch.zeros(3)\ny = torch.zeros(3, device=x.device)\nz = x.new_zeros(3)") == [1]


# Files that may reckon with the power of a cost: the cost, what says the range of an argument, and what is on its own.
KNOWS_POWER = ("transport/costs/", "losses/discrepancy.py", "testing/", "pictures/")
POWERS = {"pow", "pow_", "float_power", "max", "min"}


def reckons_with_power(source: str) -> list[int]:
    """Lines that compare or compute with `p` or an attribute of that name: whether it is None may be asked."""
    found = []
    for node in nodes(source):
        operands: list[ast.expr] = []
        if isinstance(node, ast.Compare) and not isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            operands = [node.left, *node.comparators]
        elif isinstance(node, ast.BinOp):
            operands = [node.left, node.right]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in POWERS:
            operands = node.args
        if any("p" in (getattr(operand, "id", ""), getattr(operand, "attr", "")) for operand in operands):
            found.append(node.lineno)
    return found


def test_only_the_cost_reckons_with_its_power() -> None:
    found = [
        f"{path}:{line}: ask the cost, which alone knows p"
        for path in package_files()
        if not path.as_posix().startswith(KNOWS_POWER)
        for line in reckons_with_power((PACKAGE / path).read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("line", ["p == 2", "x if self.p in (1, 2) else y", "1 / p", "max(problem.p, 2)", "c.pow(p)"])
def test_reckoning_with_a_power_is_seen(line: str) -> None:
    assert set(reckons_with_power(line)) == {1}


@pytest.mark.parametrize("line", ["p is None", "p or 2", "make_problem(x, y, p)", "f'W{p:g}'", "as_cost(self.p)"])
def test_passing_a_power_on_is_no_reckoning(line: str) -> None:
    assert reckons_with_power(line) == []


# torch imports some of HEAVY and sets filters of its own, so the state is taken after torch and numpy.
PROBE = f"""
import random, sys, warnings
import numpy, torch
import torch.distributions, torch.distributed, torch.utils.data

def state():
    return {{
        "default dtype": torch.get_default_dtype(),
        "default device": torch.get_default_device(),
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "anomaly mode": torch.is_anomaly_enabled(),
        "torch random state": torch.get_rng_state().tolist(),
        "numpy random state": repr(numpy.random.get_state()),
        "python random state": random.getstate(),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "deterministic warnings": torch.is_deterministic_algorithms_warn_only_enabled(),
        "cudnn": (torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic),
        "matmul precision": torch.get_float32_matmul_precision(),
        "threads": (torch.get_num_threads(), torch.get_num_interop_threads()),
        "numpy errors": numpy.geterr(),
        "warning filters": [repr(entry) for entry in warnings.filters],
    }}

def heavy():
    return {{name for name in {HEAVY!r} if name in sys.modules}}

before, loaded = state(), heavy()
from {NAME} import *
after = state()
problems = [f"changes the {{key}}" for key in before if before[key] != after[key]]
problems += [f"imports {{name}}" for name in sorted(heavy() - loaded)]
print("; ".join(problems))
"""


@pytest.mark.slow
def test_importing_the_library_changes_nothing_else() -> None:
    assert run(PROBE).strip() == ""


# What the command line can do without torch, whose import alone takes a second.
LIGHT = f"""
import contextlib, io, sys
import {NAME}
from {NAME}.app import main
for words in LINES:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        main(words.split())
    assert "torch" not in sys.modules, words
"""


def test_help_needs_no_torch(tmp_path: Path) -> None:
    pytest.importorskip("jsonargparse", reason="needs jsonargparse: pip install 'torchcoreset[cli]'")
    from torchcoreset.app.commands import COMMANDS

    lines = ["", "--help", "--version", *(f"{command} --help" for command in COMMANDS)]
    np.savez(tmp_path / "c.npz", points=np.ones((3, 2)), weights=np.full(3, 1 / 3))
    lines += ["info c.npz", "biuld"]
    code = LIGHT.replace("LINES", repr(lines))
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)})


def test_all_public_names_are_found_lazily() -> None:
    assert public.__all__ == sorted(public.__all__)
    assert all(getattr(torchcoreset, name) is getattr(public, name) for name in public.__all__)
    assert {*public.__all__, "__version__"} <= {*dir(torchcoreset)}
    assert callable(torchcoreset.transport), "the folder of this name is imported, too"
    with pytest.raises(AttributeError, match="has no attribute 'transprot'"):
        _ = torchcoreset.transprot
