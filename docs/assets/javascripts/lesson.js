/* What no style sheet can do for readers who use a keyboard or a screen reader. */
document$.subscribe(() => {
  // A box that scrolls must be a tab stop, and one that does not must not be. A box whose size is not
  // known is one: far from the screen the whole lesson is not laid out, and no size comes.
  const sizes = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (target.scrollWidth > target.clientWidth) target.tabIndex = 0
      else target.removeAttribute("tabindex")
    }
  })
  const watched = new WeakSet()
  // Material adds boxes around tables, to each code block a navigation landmark for its button, and
  // to a page's headings those of its search results, which are links without a name.
  const mend = () => {
    const all = (selector) => document.querySelectorAll(selector)
    for (const box of all(
      ".heat-scroll, .stage, .formula, .md-typeset__scrollwrap, pre > code, .jupyter-wrapper pre")) {
      if (watched.has(box)) continue
      watched.add(box)
      box.tabIndex = 0
      sizes.observe(box)
    }
    for (const part of all(".md-code__nav, .md-search-result__article :is(h1, h2)")) part.role = "none"
    for (const link of all(".md-search-result__link:not([aria-label])")) {
      link.ariaLabel = link.querySelector("h1, h2").textContent
    }
  }
  mend()
  new MutationObserver(mend).observe(document.body, { childList: true, subtree: true })

  // A picture says what it shows now.
  for (const picture of document.querySelectorAll(".frames")) {
    const says = picture.appendChild(document.createElement("p"))
    let timer
    says.className = "sr"
    says.role = "status"
    picture.addEventListener("change", () => {
      clearTimeout(timer)
      timer = setTimeout(() => {
        const captions = [...picture.querySelectorAll("figcaption")]
        says.textContent = captions.find((one) => one.checkVisibility()).textContent
      }, 300)
    })
  }

  // Material leaves the choice of colours that is in force unmarked.
  document.getElementById(`__palette_${__md_get("__palette")?.index ?? 0}`).checked = true
})

// Material turns the page on a letter that is pressed alone, wherever one is. Only the slash, which
// opens the search, is kept, and only where nothing has the focus.
addEventListener("keydown", (event) => {
  const slash = event.key === "/" && document.activeElement === document.body
  if (/^[pnfs,./]$/.test(event.key) && !slash) event.stopImmediatePropagation()
}, true)
