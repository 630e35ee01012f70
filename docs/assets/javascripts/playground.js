/* The playground's page: the form is the state, the address carries it, the tables show it. What
   the reader types reaches the page as text alone. */
document$.subscribe(() => {
  const form = document.querySelector("#playground")
  const part = (name) => form.querySelector(`[data-part="${name}"]`)
  const layer = playgroundModel.layer(playgroundWeights)
  const STEPS = ["scores", "scaled", "masked", "weights", "output"]
  const WIDE = 12 // more columns than this are shown without their numbers, unless asked for

  const make = (tag, props = {}, ...children) => {
    const element = Object.assign(document.createElement(tag), props)
    element.append(...children)
    return element
  }
  const hidden = (text) => make("span", { className: "sr" }, text)
  const shown = (number, digits) => {
    const text = Math.abs(number).toFixed(digits)
    return Number.isNaN(number) ? "nan" : number < 0 && Number(text) ? `\u2212${text}` : text
  }
  const count = (number, word) => `${number} ${word}${number === 1 ? "" : "s"}`

  // State ------------------------------------------------------------------------------------

  const values = () => Object.fromEntries(new FormData(form))
  const initial = values()

  const settings = ({ scale, pads, mask, fill, causal, order }) => ({
    scale,
    pads: Number(pads),
    mask,
    fill: Number(fill),
    causal,
    order: order ? order.split(".").map(Number) : [],
  })

  // A value that a control does not take, as in a damaged link, leaves it as it is at first.
  const set = (name, value) => {
    const control = form.elements[name]
    control.value = value
    if (control.value !== value || control.selectedIndex === -1) control.value = initial[name]
  }

  const asked = () => new URLSearchParams(location.hash.slice(1))

  let padsAsked = initial.pads

  const readLink = () => {
    const link = asked()
    form.elements.pads.max = playgroundModel.MAX_LEN - 1
    for (const name of Object.keys(initial)) set(name, link.get(name) ?? initial[name])
    const text = form.elements.text
    text.value = text.value.slice(0, text.maxLength)
    padsAsked = form.elements.pads.value
    if (Object.keys(initial).some((name) => link.has(name))) writeLinkSoon()
  }

  // The pads have the places that the words leave. What was asked for comes back with the room.
  const fitPads = (words) => {
    const { pads } = form.elements
    pads.max = playgroundModel.MAX_LEN - Math.min(Math.max(words, 1), playgroundModel.MAX_LEN)
    pads.value = padsAsked
    part("pads-used").textContent = pads.value
  }

  const link = (now) => {
    const changed = Object.keys(initial).filter((name) => now[name] !== initial[name])
    const query = new URLSearchParams(changed.map((name) => [name, now[name]]))
    return changed.length ? `#${query}` : ""
  }

  const writeLink = () => {
    history.replaceState(null, "", location.href.split("#")[0] + link(values()))
  }
  const writeLinkSoon = later(400, writeLink) // browsers refuse to many times in a second

  // Said once the reader rests: what was done by hand, and what came of it.
  let done = ""
  const announce = later(800, () => {
    part("status").textContent = done + part("summary").textContent
    done = ""
  })

  function later(milliseconds, act) {
    let timer
    return () => {
      clearTimeout(timer)
      timer = setTimeout(act, milliseconds)
    }
  }

  // Tables -----------------------------------------------------------------------------------

  const header = (scope, text) => make("th", { scope }, make("span", { title: text }, text))

  const colour = (cell, share) => cell.style.setProperty("--w", share.toFixed(2))

  // A cell of one step: what it says, and how it is coloured from `low` (faint) to `high`.
  const makeCell = (step, number, isBlocked, low, high) => {
    if (Number.isNaN(number)) return make("td", { className: "nan" }, make("span", {}, "nan"))
    if (isBlocked && step === "weights" && number === 0) {
      return make("td", { className: "masked" }, hidden("masked"))
    }
    if (isBlocked && step === "masked") {
      const text = Number.isFinite(number) ? shown(number, 0) : "\u2212∞"
      return make("td", { className: "masked" }, make("span", {}, text), hidden(" masked"))
    }
    const cell = make("td", {}, make("span", {}, shown(number, 2)))
    if (isBlocked && step === "weights") {
      cell.className = "leak"
      cell.append(hidden(" though masked"))
    }
    colour(cell, high > low ? (number - low) / (high - low) : 0)
    return cell
  }

  const range = (step, rows, blocked) => {
    if (step === "weights") return [0, 1]
    const open = rows.flatMap((row, i) =>
      [...row].filter((n, j) => !Number.isNaN(n) && !(step === "masked" && blocked[i][j])))
    return [Math.min(...open), Math.max(...open)]
  }

  const captions = {
    scores: () => "scores: the product of each query with each key.",
    scaled: ({ divisor }) => `scaled: the scores divided by ${shown(divisor, 2)}.`,
    masked: () => "masked: what the softmax gets.",
    weights: () => "weights: the softmax of each row; each row sums to 1.",
    output: () => "output: the values, averaged with the weights of each row; 16 entries.",
  }
  const together = ({ pads }) =>
    ` The ${pads} pads are one column, the sum of their weights, and one row, that of the first.`
  const legend = " Coloured from its smallest number, faint, to its largest, strong."

  // What a table of a step shows: its rows, their names and those of its columns.
  const whole = (step, here) => {
    const names = here.ids.map((id, place) => here.tokens[place] ?? "<pad>")
    const rows = here[step]
    const columns = step === "output" ? [...rows[0].keys()].map(String) : names
    const blocked = step === "masked" || step === "weights" ? here.blocked : []
    return { rows, names, columns, blocked }
  }

  // The weights with the pads as one column, which holds what they get together, and the first pad
  // as the one row: with more than a few pads no single cell shows where the weight goes.
  const folded = ({ tokens, pads, weights, blocked }) => {
    const real = tokens.length
    const fold = (row, together) => [...row.slice(0, real), together(row.slice(real))]
    const rows = weights.slice(0, real + 1)
    // One cell for all pads is masked where all are, or where one is and has a weight all the same.
    const isBlocked = (i) => (pads) =>
      pads.every(Boolean) || pads.some((masked, j) => masked && weights[i][real + j] > 0)
    return {
      rows: rows.map((row) => fold(row, (shares) => shares.reduce((a, b) => a + b))),
      blocked: rows.map((_, i) => fold(blocked[i], isBlocked(i))),
      names: [...tokens, `first of ${pads} pads`],
      columns: [...tokens, `${pads} pads`],
    }
  }

  const makeTable = (step, { rows, names, columns, blocked }) => {
    const [low, high] = range(step, rows, blocked)
    const corner = make("td", {},
      make("span", { className: step === "output" ? "v" : "k" },
        hidden("columns: "), step === "output" ? "entries" : "keys"),
      " ", make("span", { className: "q" }, hidden("rows: "), "queries"))
    const head = make("tr", {}, corner, ...columns.map((text) => header("col", text)))
    const body = rows.map((row, i) =>
      make("tr", {}, header("row", names[i]),
        ...Array.from(row, (n, j) => makeCell(step, n, blocked[i]?.[j], low, high))))
    return make("table", { className: "heatmap" }, make("thead", {}, head), make("tbody", {}, ...body))
  }

  const showStep = (step, here, room) => {
    const figure = form.querySelector(`figure[data-step="${step}"]`)
    const wanted = [step, "all"].includes(form.elements.show.value)
    figure.hidden = !wanted || !here
    if (figure.hidden) return
    const small = step !== "output" && here.ids.length > WIDE && !form.elements.numbers.checked
    const isFolded = small && step === "weights" && here.pads > 1
    const view = isFolded ? folded(here) : whole(step, here)
    const table = makeTable(step, view)
    figure.classList.toggle("compact", small && view.columns.length > WIDE)
    figure.classList.toggle("dense", view.columns.length > room)
    const more = isFolded ? together(here) : step === "weights" ? "" : legend
    const caption = captions[step](here) + more
    table.ariaLabel = caption
    figure.querySelector(".heat-scroll").replaceChildren(table)
    figure.querySelector("figcaption").textContent = caption
  }

  // The tokens: a button each, to move it; the id; how far its output moved.
  const showTokens = ({ tokens, ids }, moved) => {
    const { UNK } = playgroundModel
    const row = (name, cells) => make("tr", {}, make("th", { scope: "row" }, name), ...cells)
    const buttons = tokens.map((token, place) => {
      const title = `Exchange ${token} with ${tokens.at(place - 1)}`
      const button = make("button", { type: "button", title }, token)
      button.addEventListener("click", () => move(place))
      return make("th", { scope: "col" }, button)
    })
    const known = ids.slice(0, tokens.length).map((id) =>
      id === UNK ? make("td", { className: "unknown" }, `${id} unknown`) : make("td", {}, String(id)))
    const distances = moved.map((far) => make("td", {}, shown(far, 2)))
    part("tokens").replaceChildren(
      make("thead", {}, row("token", buttons)),
      make("tbody", {}, row("id", known), row("moved", distances)))
  }

  // A token changes places with the one on its left, the first with the last.
  const move = (place) => {
    const to = (place || order.length) - 1
    const moved = [...order]
    ;[moved[place], moved[to]] = [moved[to], moved[place]]
    reorder(moved, part("tokens"))
    const button = part("tokens").querySelectorAll("button")[to]
    button.focus()
    done = `${button.textContent} is now ${to + 1} of ${order.length}. `
  }

  let order = [] // as shown: the typed place of the token at each place

  const isTyped = (places) => places.every((typed, place) => typed === place)

  const reorder = (places, control) => {
    form.elements.order.value = isTyped(places) ? "" : places.join(".")
    change(control)
  }

  // Words ------------------------------------------------------------------------------------

  const span = (numbers) => {
    const [low, high] = [Math.min(...numbers), Math.max(...numbers)].map((n) => shown(n, 2))
    return low === high ? low : `${low} to ${high}`
  }

  // In words, the largest distance of those that are one.
  const distance = (moved) => {
    const far = shown(Math.max(0, ...moved.filter((n) => !Number.isNaN(n))), 4)
    const from = Number(far) === 0
      ? "those of the plain query, 0.0000 apart." : `up to ${far} from those of the plain query.`
    return moved.some(Number.isNaN)
      ? `A token’s output is nan; the others are ${from}` : `The outputs are ${from}`
  }

  const summary = ({ here, moved }) => {
    const real = here.tokens.length
    const said = [distance(moved)]
    const open = here.weights.slice(0, real).filter((row) => !Number.isNaN(row[0]))
    if (here.pads && open.length) {
      const given = open.map((row) => row.slice(real).reduce((a, b) => a + b))
      said.push(`The tokens give ${span(given)} of their weight to the ${count(here.pads, "pad")}.`)
    }
    const gone = here.weights.filter((row) => Number.isNaN(row[0])).length
    if (gone) {
      said.push(`${count(gone, "row")} of nan: every key is masked with minus infinity, `
        + "and the softmax divides 0 by 0.")
    }
    const unknown = here.ids.filter((id) => id === playgroundModel.UNK).length
    if (unknown) {
      said.push(unknown === 1 ? "1 token is unknown and has the vector of all unknown words."
        : `${unknown} tokens are unknown and share one vector.`)
    }
    if (here.cut) said.push(`Cut at ${real} tokens: the last ${here.cut} are not read.`)
    return said.join(" ")
  }

  // Beside each switch, as a phrase: it describes the switch to those who listen.
  const showSwitches = (switches, now) => {
    for (const [name, far] of Object.entries(switches)) {
      const plain = name === "order" ? !now.order : now[name] === part(name).dataset.plain
      part(name).replaceChildren(...(plain ? ["as plain"]
        : Number.isNaN(far) ? ["changes ", hidden("what is "), "nan"]
        : ["moves ", hidden("the outputs by "), shown(far, 4)]))
      part(name).className = plain || Number(shown(far, 4)) === 0 ? "" : "moves"
    }
  }

  const update = () => {
    const words = playgroundModel.tokenize(form.elements.text.value).length
    const empty = words === 0
    fitPads(words)
    const now = values()
    form.classList.toggle("empty", empty)
    const found = empty ? {} : playgroundModel.effects(layer, now.text, settings(now))
    part("summary").textContent = empty
      ? "An empty query: there is no token to look at another. Type a word or a mark."
      : summary(found)
    if (!empty) {
      if (isTyped(found.here.order)) form.elements.order.value = now.order = ""
      order = found.here.order
      showTokens(found.here, found.moved)
      showSwitches(found.switches, now)
    } else {
      for (const one of form.querySelectorAll(".switches span[data-part]")) one.textContent = ""
    }
    const room = part("result").clientWidth / 14 // for words that stand upright, side by side
    for (const step of STEPS) showStep(step, found.here, room)
    part("numbers").hidden = empty || now.show === "output" || found.here.ids.length <= WIDE
    part("link").href = link(now) || "#"
    part("copied").textContent = ""
  }

  // What the reader did, other than following a link, goes into the address. The control that did
  // it stays where it was, though the picture above it on a phone may have grown.
  const change = (control) => {
    const top = () => control.getBoundingClientRect().top
    const before = top()
    update()
    scrollBy({ top: top() - before, behavior: "instant" })
    announce()
    writeLinkSoon()
  }

  // Events -----------------------------------------------------------------------------------

  form.addEventListener("input", (event) => {
    const { name, value } = event.target
    if (name === "text") form.elements.order.value = ""
    if (name === "pads") padsAsked = value
    if (name === "show") done = `Shown: ${value}. `
    change(event.target)
  })
  form.addEventListener("submit", (event) => event.preventDefault())
  form.addEventListener("reset", ({ target }) => {
    form.elements.order.value = ""
    padsAsked = initial.pads
    setTimeout(change, 0, target) // after the reset
  })
  const orders = {
    reverse: (places) => places.reverse(),
    shuffle: (places) => places.map((p) => [Math.random(), p]).sort(([a], [b]) => a - b).map(([, p]) => p),
    typed: (places) => places.sort((a, b) => a - b),
  }
  form.addEventListener("click", ({ target }) => {
    const rearranged = orders[target.dataset.order]
    if (rearranged) reorder(rearranged([...order]), target)
  })
  part("link").addEventListener("click", async (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return // opened elsewhere, as any link
    event.preventDefault()
    writeLink()
    let said = "The link is copied."
    try {
      await navigator.clipboard.writeText(location.href)
    } catch { // a page from disk may have no clipboard, and a reader may refuse it
      said = "The address bar has the link."
    }
    part("copied").textContent = part("status").textContent = said
  })
  document.addEventListener("click", ({ target }) => {
    if (target.closest("a.try")) {
      setTimeout(() => {
        form.scrollIntoView()
        form.focus({ preventScroll: true })
      })
    }
  })
  // The address of a heading says nothing of the form.
  addEventListener("hashchange", () => {
    if (location.hash === "" || Object.keys(initial).some((name) => asked().has(name))) {
      readLink()
      update()
      announce()
    }
  })

  readLink()
  update()
})
