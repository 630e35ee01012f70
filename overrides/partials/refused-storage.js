/* Some browsers refuse even to look at a page's storage, and Material looks without asking: it gets
   one that is empty and takes nothing. */
for (const name of ["localStorage", "sessionStorage"]) {
  try {
    window[name].getItem("")
  } catch {
    const refuse = () => { throw new Error(`This browser refuses ${name}.`) }
    const value = { getItem: () => null, setItem: refuse, removeItem: refuse }
    Object.defineProperty(window, name, { value })
  }
}
