/* "Predict first": every output and picture is folded until the reader opens it, and the numbers that
   the text quotes from it are hidden as long. The choice stays in this browser; one that keeps
   nothing keeps it for the page. */
document$.subscribe(() => {
  const KEY = "selfattn.predict"
  const box = document.querySelector(".predict input")
  if (!box) return
  const outputs = document.querySelectorAll(".executed > :is(.language-text, .shown)")
  const attempt = (action) => { try { return action() } catch { return null } }

  // What a check prints is about the section before it, which the page shows.
  const numbers = [...document.querySelectorAll("article data")].map((element) => {
    const [, script, section] = element.title.match(/printed by (\S+), section (\S+?)(-check)?$/) ?? []
    const fold = `[id="out-${script}-${section}"] > .output:not([open])`
    return { element, fold, text: element.textContent }
  })
  const hide = () => {
    for (const { element, fold, text } of numbers) {
      element.textContent = document.querySelector(fold) ? "…" : text
    }
  }
  const reveal = () => { for (const { element, text } of numbers) element.textContent = text }

  const fold = (output) => {
    const details = document.createElement("details")
    const what = output.matches(".shown") ? "Picture" : "Output"
    details.className = "output"
    details.innerHTML = `<summary>${what}: predict it first</summary>`
    details.addEventListener("toggle", hide)
    output.replaceWith(details)
    details.append(output)
  }
  const apply = () => {
    for (const output of outputs) {
      const folded = output.parentElement.matches(".output")
      if (box.checked && !folded) fold(output)
      if (!box.checked && folded) output.parentElement.replaceWith(output)
    }
    hide()
  }
  const recall = () => {
    const stored = attempt(() => localStorage.getItem(KEY))
    if (stored) box.checked = stored === "on"
    apply()
  }

  box.addEventListener("change", () => {
    attempt(() => localStorage.setItem(KEY, box.checked ? "on" : "off"))
    apply()
  })
  for (const event of ["storage", "pageshow"]) addEventListener(event, recall)
  addEventListener("beforeprint", reveal)
  addEventListener("afterprint", hide)
  recall()
})
