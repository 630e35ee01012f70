/* The shape calculator: the tables of selfattn/figures/shapes.py from what is typed, set as text. */

// Sizes such as "32, 1, 48" or "[32, 1, 48]"; null for anything else.
const parseShape = (text) => {
  const bare = text.replace(/^\s*(torch\.Size)?[[(]*|[\s,\])]*$/g, "").trim()
  const sizes = bare.split(/\s*[,x×]\s*|\s+/)
  return sizes.length <= 8 && sizes.every((size) => /^\d{1,6}$/.test(size)) ? sizes.map(Number) : null
}

// What comes out, null where sizes clash; the words for it; the places to mark.
const lineUp = (scores, mask) => {
  const size = Math.max(scores.length, mask.length)
  const [a, b] = [scores, mask].map((shape) => [...Array(size - shape.length).fill(1), ...shape])
  const result = a.map((x, i) => (b[i] === 1 || b[i] === x ? x : x === 1 ? b[i] : null))
  const where = (test) => result.flatMap((x, i) => (test(x, i) ? i : []))
  const clash = where((x) => x === null)
  const grown = where((x, i) => x !== a[i] || i < size - scores.length)
  const [last, first, same] = [clash.at(-1), size - mask.length, mask[0]]
  const verdict = (words, ...places) => ({ result, words, places })
  if (clash.length) {
    const meet = `${a[last]} meets ${b[last]} in dimension −${size - last}`
    return verdict(`Refused: ${meet}, and neither is 1.`, ...clash)
  }
  if (grown.length) {
    const shape = result.join(", ")
    return verdict(`Grows to ${shape}: code by hand goes on, PyTorch’s function refuses.`, ...grown)
  }
  if (first && same > 1 && same === scores[0] && same === scores[first]) {
    const met = `the mask’s first ${same} meets dimension −${mask.length}`
    return verdict(`Fits, perhaps by accident: ${met}, and the batch is ${same} too.`, first)
  }
  if (b[size - 1] === 1 && a[size - 1] > 1) {
    return verdict("Fits, but treats all keys alike: the mask blocks whole rows.", size - 1)
  }
  return verdict("Fits: the scores keep their shape.")
}

document$.subscribe(() => {
  const calculator = document.querySelector(".calculator")
  if (!calculator) return
  const inputs = [...calculator.querySelectorAll("input")]
  const says = calculator.querySelector("output")
  const status = calculator.querySelector("[role=status]")
  let timer
  const table = calculator.querySelector("table")
  const fill = (row, texts, places) => {
    const made = texts.map((textContent, i) => {
      const cell = document.createElement(row.rowIndex ? "td" : "th")
      return Object.assign(cell, { textContent, className: places.includes(i) ? "alarm" : "" })
    })
    row.replaceChildren(row.cells[0], ...made)
  }
  const draw = () => {
    const shapes = inputs.map((input) => parseShape(input.value))
    inputs.forEach((input, i) => input.setAttribute("aria-invalid", !shapes[i]))
    table.hidden = shapes.includes(null)
    const { result, words, places } = table.hidden
      ? { words: "A shape is up to 8 sizes with commas between, such as 32, 1, 48.", places: [] }
      : lineUp(...shapes)
    says.textContent = words
    says.className = places.length ? "alarm" : ""
    if (table.hidden) return
    const size = result.length
    const padded = (shape) => [...Array(size - shape.length).fill("(1)"), ...shape]
    const out = result.includes(null) ? result.map((x) => (x === null ? "≠" : "")) : result
    fill(table.rows[0], result.map((_, i) => `−${size - i}`), [])
    ;[...shapes.map(padded), out].forEach((texts, i) => fill(table.rows[i + 1], texts, places))
  }
  calculator.addEventListener("input", () => {
    draw()
    // Read aloud once the typing rests.
    clearTimeout(timer)
    timer = setTimeout(() => { status.textContent = says.textContent }, 800)
  })
  calculator.hidden = false
  draw()
})
