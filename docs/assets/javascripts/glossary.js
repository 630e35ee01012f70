/* A term's sentence shows while the pointer or the focus is on it; a finger's first tap shows it and
   the second follows the link. Being popovers, they close by Escape and by a tap elsewhere. */
document$.subscribe(() => {
  for (const link of document.querySelectorAll(".term")) {
    const tip = document.getElementById(link.getAttribute("aria-describedby"))
    if (!tip.showPopover) return
    const isOpen = () => tip.matches(":popover-open")
    const show = () => {
      tip.showPopover()
      const { left, top, bottom } = link.getBoundingClientRect()
      const { width, height } = tip.getBoundingClientRect()
      const room = document.documentElement.clientWidth - width - 8
      tip.style.left = `${scrollX + Math.max(0, Math.min(left, room))}px`
      // Without a gap, so that the pointer may go from the one to the other.
      tip.style.top = `${scrollY + (bottom + height > innerHeight ? top - height : bottom)}px`
    }
    const on = (event, action) => link.addEventListener(event, action)

    on("focus", () => { if (link.matches(":focus-visible")) show() })
    on("blur", () => tip.hidePopover())
    on("pointerenter", ({ pointerType }) => { if (pointerType === "mouse") show() })
    for (const element of [link, tip]) {
      element.addEventListener("pointerleave", ({ pointerType, relatedTarget: to }) => {
        const stays = link.contains(to) || tip.contains(to) || link.matches(":focus-visible")
        if (pointerType === "mouse" && !stays) tip.hidePopover()
      })
    }
    let follows = true
    on("pointerdown", ({ pointerType }) => { follows = pointerType === "mouse" || isOpen() })
    on("click", (event) => {
      if (follows) return
      event.preventDefault()
      follows = true
      show()
    })
  }
})
