// Sets the formulas of a page with KaTeX, which lies beside this file: no network.
document.addEventListener("DOMContentLoaded", () => {
  for (const element of document.querySelectorAll(".arithmatex")) {
    const text = element.textContent.trim() // \( ... \) or \[ ... \]
    katex.render(text.slice(2, -2), element, { displayMode: text.startsWith("\\["), throwOnError: false })
    keepPunctuation(element)
  }
})

// A comma after a short formula stays on its line.
function keepPunctuation(element) {
  const mark = element.tagName === "SPAN" && element.nextSibling?.data?.match(/^[,.;:)]+/)?.[0]
  if (mark && element.offsetWidth < 100) {
    const line = document.createElement("span")
    line.className = "katex-nowrap"
    element.replaceWith(line)
    line.nextSibling.data = line.nextSibling.data.slice(mark.length)
    line.append(element, mark)
  }
}
