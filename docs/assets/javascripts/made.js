/* A tensor's name in the prose lights up the line that made it; following the link goes there. */
for (const [event, lit] of [["pointerover", 1], ["focusin", 1], ["pointerout", 0], ["focusout", 0]]) {
  document.addEventListener(event, ({ target }) => {
    const link = target.closest?.("a.made")
    if (link) document.getElementById(link.hash.slice(1)).classList.toggle("lit", Boolean(lit))
  })
}
