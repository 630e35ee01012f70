/* What no style sheet can do for readers who use a keyboard or a screen reader. */
document$.subscribe(() => {
  // A box that scrolls must be a tab stop, and one that does not must not be.
  const sizes = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (target.scrollWidth > target.clientWidth) target.tabIndex = 0
      else target.removeAttribute("tabindex")
    }
  })
  // Material adds boxes around tables, and to each code block a navigation landmark for its button.
  const mend = () => {
    const boxes = document.querySelectorAll(
      ".heat-scroll, .formula, .md-typeset__scrollwrap, .jupyter-wrapper :is(pre, pre > code)")
    for (const box of boxes) sizes.observe(box)
    for (const nav of document.querySelectorAll(".md-code__nav")) nav.setAttribute("role", "none")
  }
  mend()
  new MutationObserver(mend).observe(document.body, { childList: true, subtree: true })
})
