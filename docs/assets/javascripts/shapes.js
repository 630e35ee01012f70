/* The shape calculator. It makes the tables of selfattn/figures/shapes.py from what is typed, and
   writes text only: nothing typed becomes markup. */

// Sizes such as "32, 1, 48" or "[32, 1, 48]"; null for anything else.
const parseShape = (text) => {
  const bare = text.trim().replace(/^(torch\.Size)?[[(]+/, "").replace(/,?\s*[\])]+$/, "").trim()
  const sizes = bare.split(/\s*[,x×]\s*|\s+/)
  return sizes.length <= 8 && sizes.every((size) => /^\d{1,6}$/.test(size)) ? sizes.map(Number) : null
}

// What comes out, null where two sizes clash; the words for it; the places to mark.
const lineUp = (scores, mask) => {
  const size = Math.max(scores.length, mask.length)
  const [a, b] = [scores, mask].map((shape) => [...Array(size - shape.length).fill(1), ...shape])
  const result = a.map((x, i) => (b[i] === 1 || b[i] === x ? x : x === 1 ? b[i] : null))
  const where = (test) => [...result.keys()].filter(test)
  const clashes = where((i) => result[i] === null)
  const grown = where((i) => result[i] !== a[i] || i < size - scores.length)
  const first = size - mask.length
  let words = "Fits: the scores keep their shape."
  let places = []
  if (clashes.length) {
    const last = clashes.at(-1)
    words = `Refused: ${a[last]} meets ${b[last]} in dimension −${size - last}, and neither is 1.`
    places = clashes
  } else if (grown.length) {
    words = `Grows to ${result.join(", ")}: a layer written by hand goes on with that, `
    words += "PyTorch’s function refuses the mask."
    places = grown
  } else if (first && mask[0] > 1 && mask[0] === scores[0] && mask[0] === scores[first]) {
    words = `Fits, perhaps by accident: the mask’s first ${mask[0]} lines up with dimension `
    words += `−${mask.length}, and the batch is ${mask[0]} as well.`
    places = [first]
  } else if (b[size - 1] === 1 && a[size - 1] > 1) {
    words = "Fits, but treats all keys alike: the mask blocks whole rows."
    places = [size - 1]
  }
  return { result, words, places }
}

document$.subscribe(() => {
  const place = document.querySelector(".calculator")
  if (!place) return
  const [scores, mask] = place.querySelectorAll("input")
  const says = place.querySelector("output")
  const table = place.querySelector("table")
  const row = (head, kind, cells, places) => {
    const made = document.createElement("tr")
    const add = (tag, text, alarm) => {
      const cell = made.appendChild(document.createElement(tag))
      cell.textContent = text
      if (alarm) cell.className = "alarm"
      if (tag === "th") cell.scope = head ? "row" : "col"
    }
    add(head ? "th" : "td", head)
    cells.forEach((text, i) => add(kind, text, places.includes(i)))
    return made
  }
  const draw = () => {
    const shapes = [scores, mask].map((input) => parseShape(input.value))
    shapes.forEach((shape, i) => [scores, mask][i].setAttribute("aria-invalid", !shape))
    table.hidden = shapes.includes(null)
    says.className = ""
    says.textContent = "A shape is up to 8 sizes with commas between them, such as 32, 1, 48."
    if (table.hidden) return
    const { result, words, places } = lineUp(...shapes)
    says.textContent = words
    says.className = places.length ? "alarm" : ""
    const size = result.length
    const padded = (shape) => [...Array(size - shape.length).fill("(1)"), ...shape]
    const refused = result.includes(null)
    const shown = result.map((x) => (x === null ? "≠" : refused ? "" : x))
    table.tHead.replaceChildren(row("", "th", result.map((_, i) => `−${size - i}`), []))
    table.tBodies[0].replaceChildren(
      row("scores", "td", padded(shapes[0]), places),
      row("mask", "td", padded(shapes[1]), places),
      row("result", "td", shown, places),
    )
  }
  place.addEventListener("input", draw)
  place.hidden = false
  draw()
})
