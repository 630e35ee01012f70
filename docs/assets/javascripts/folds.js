/* A link opens the folds that hide what it points at, and the address names the fold that was
   opened last. The browser alone opens no fold that is itself the target, and none twice. */
const reveal = () => {
  const target = document.getElementById(location.hash.slice(1))
  if (!target?.closest("details:not([open])")) return
  for (let at = target; at; at = at.parentElement) if (at.matches("details")) at.open = true
  target.scrollIntoView()
}

document$.subscribe(reveal)
addEventListener("hashchange", reveal)
addEventListener("click", ({ target }) => {
  const fold = target.closest("summary")?.parentElement
  // Not through location.hash, which would scroll.
  if (fold?.id && !fold.open) history.replaceState(null, "", `#${fold.id}`)
  if (target.closest("a")?.href === location.href) reveal()
})
