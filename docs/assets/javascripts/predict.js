/* "Predict first": every output and picture is folded until the reader opens it. The choice stays in
   this browser; one that keeps nothing keeps it for the page. */
document$.subscribe(() => {
  const KEY = "selfattn.predict"
  const box = document.querySelector(".predict input")
  if (!box) return
  const outputs = document.querySelectorAll(".executed > :is(.language-text, .shown)")
  const attempt = (action) => { try { return action() } catch { return null } }

  const fold = (output) => {
    const details = document.createElement("details")
    const what = output.matches(".shown") ? "Picture" : "Output"
    details.className = "output"
    details.innerHTML = `<summary>${what}: predict it first</summary>`
    output.replaceWith(details)
    details.append(output)
  }
  const apply = () => {
    for (const output of outputs) {
      const folded = output.parentElement.matches(".output")
      if (box.checked && !folded) fold(output)
      if (!box.checked && folded) output.parentElement.replaceWith(output)
    }
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
  recall()
})
