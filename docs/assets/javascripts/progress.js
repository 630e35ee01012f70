/* What a reader has marked as done. It stays in this browser. */

// Days and records: pure functions. A day is text, "2026-03-12", by the reader's own calendar.
const progress = (() => {
  const dayOf = (date) =>
    [date.getFullYear(), date.getMonth() + 1, date.getDate()]
      .map((part, i) => String(part).padStart(i ? 2 : 4, "0")).join("-")

  // Counted in UTC, where every day has 24 hours.
  const number = (day) => Date.parse(`${day}T00:00Z`) / 864e5

  const isDay = (day) =>
    /^\d{4}-\d\d-\d\d$/.test(day) && new Date(`${day}T00:00Z`).toJSON()?.slice(0, 10) === day

  const union = (...days) => [...new Set(days.flat())].sort()

  const streaks = (days, today) => {
    const runs = new Map() // from each day to the length of the run that ends with it
    let longest = 0
    for (const n of union(days).map(number)) {
      runs.set(n, (runs.get(n - 1) ?? 0) + 1)
      longest = Math.max(longest, runs.get(n))
    }
    // Tomorrow is among the days after a flight to the west, or when a fast clock was set back.
    const ends = [-1, 0, 1].map((shift) => runs.get(number(today) + shift) ?? 0)
    return { current: Math.max(...ends), longest }
  }

  // All that can be understood of a text; `whole` says whether that was everything.
  const parse = (text) => {
    let data = null
    try { data = JSON.parse(text) } catch { /* nothing can be understood */ }
    const entries = Object.entries(Object(data?.done))
    const marks = entries.filter(([, day]) => isDay(day))
    const listed = [data?.days ?? []].flat()
    const days = listed.filter(isDay)
    const all = marks.length === entries.length && days.length === listed.length
    return {
      whole: all && data?.version === 1,
      record: {
        ...(data?.version === 1 && data),
        version: 1,
        done: Object.fromEntries(marks),
        days: union(days, marks.map(([, day]) => day)),
        streak: data?.streak !== false,
      },
    }
  }

  // Where both have a page, the earlier day stays.
  const merge = (mine, theirs) => {
    const marks = [mine, theirs].flatMap(({ done }) => Object.entries(done))
    marks.sort(([, a], [, b]) => b.localeCompare(a))
    return { ...mine, done: Object.fromEntries(marks), days: union(mine.days, theirs.days) }
  }

  // What a reader can do, as data: it is done again on whatever another tab has stored meanwhile.
  const changes = {
    mark: (record, key, day) =>
      merge(record, { done: { [key]: day }, days: record.done[key] ? [] : [day] }),
    unmark: (record, key, today) => {
      const { [key]: day, ...done } = record.done
      const empty = day === today && !Object.values(done).includes(today)
      return { ...record, done, days: record.days.filter((one) => !empty || one !== today) }
    },
    merge,
    streak: (record, streak) => ({ ...record, streak }),
    reset: (record) => ({ ...record, done: {}, days: [] }),
  }
  const replay = (record, list) =>
    list.reduce((now, [name, ...rest]) => changes[name](now, ...rest), record)

  return { dayOf, isDay, streaks, parse, merge, replay }
})()

document$.subscribe(() => {
  const source = document.getElementById("progress-pages")
  if (!source) return // the page that says "not found"
  const { dayOf, streaks, parse, merge, replay } = progress
  const KEY = "selfattn.progress"
  const ASIDE = `${KEY}.aside` // what could not be read
  const places = JSON.parse(source.textContent)
  const keys = Object.keys(places)
  const keyAt = new Map(keys.map((key) => [new URL(places[key], document.baseURI).href, key]))

  const all = (selector) => [...document.querySelectorAll(selector)]
  const on = (selector, event, action) =>
    all(selector).forEach((element) => element.addEventListener(event, () => action(element)))
  const write = (selector, text) => {
    for (const element of all(selector)) element.textContent = text
  }
  const plural = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`
  const spoken = (day) =>
    new Date(day).toLocaleDateString("en-GB", { dateStyle: "long", timeZone: "UTC" })
  const download = (link, text, name) => {
    link.href = `data:application/json,${encodeURIComponent(text)}`
    link.download = name
  }

  // A browser may refuse its store at any call. What it has not kept waits here and is tried again.
  const attempt = (action) => { try { return action() } catch { return null } }
  const read = (key) => attempt(() => localStorage.getItem(key)) || ""
  const stored = () => parse(read(KEY) || '{"version": 1}')
  let waiting = attempt(() => JSON.parse(sessionStorage.getItem(KEY))) ?? []
  const current = () => replay(stored().record, waiting)
  if (!attempt(current)) waiting = []
  let today = ""

  const render = () => {
    today = dayOf(new Date())
    const record = current()
    const { done, days, streak } = record
    const marked = keys.filter((key) => done[key])
    const runs = streaks(days, today)
    write('[data-progress="done"]', `${marked.length} of ${plural(keys.length, "page")}`)
    const fresh = marked.filter((key) => done[key] === today)
    write('[data-progress="today"]', plural(fresh.length, "page"))
    write('[data-progress="current"]', plural(runs.current, "day"))
    write('[data-progress="longest"]', plural(runs.longest, "day"))
    for (const element of all(".progress")) element.hidden = !days.length
    for (const element of all(".streak")) element.hidden = !streak
    for (const box of all('[data-progress="streak"]')) box.checked = streak
    for (const box of all("[data-mark]")) box.checked = Boolean(done[box.dataset.mark])
    for (const cell of all("[data-day]")) {
      const day = done[cell.dataset.day]
      cell.textContent = day ? `done on ${spoken(day)}` : ""
    }
    for (const link of all(".md-nav--primary a, .cards a")) {
      link.classList.toggle("done", marked.includes(keyAt.get(link.href)))
    }
    for (const link of all('[data-progress="export"]')) {
      download(link, JSON.stringify(record, null, 2), `selfattn-progress-${today}.json`)
    }
    for (const link of all(".aside a")) {
      download(link, read(ASIDE), "selfattn-unread.txt")
      link.parentElement.hidden = !read(ASIDE)
    }
  }

  const save = (message, ...change) => {
    if (change.length) waiting.push(change)
    try {
      const text = localStorage.getItem(KEY)
      const aside = localStorage.getItem(ASIDE) ?? ""
      if (text && !parse(text).whole && !aside.includes(text)) {
        localStorage.setItem(ASIDE, `${aside}${text}\n`)
      }
      localStorage.setItem(KEY, JSON.stringify(current()))
      waiting = []
      sessionStorage.removeItem(KEY)
    } catch {
      const text = JSON.stringify(waiting)
      const inTab = attempt(() => sessionStorage.setItem(KEY, text) ?? true)
      message += " This browser keeps nothing for this site now: marks last until you " +
        (inTab ? "close this tab." : "leave this page.")
    }
    render()
    write(".said", message)
  }

  const load = async (file) => {
    const { whole, record } = parse(file.size < 1e6 ? await file.text().catch(() => "") : "")
    if (!record.days.length) {
      const reason = whole ? "the file holds no marks" : "this is no file of progress"
      return write(".said", `Nothing was imported: ${reason}.`)
    }
    const before = current()
    const after = merge(before, record)
    const marks = Object.keys(after.done).length - Object.keys(before.done).length
    const days = after.days.length - before.days.length
    const rest = whole ? "" : " Some of the file could not be read and was left out."
    const news = `New: ${plural(marks, "page")}, ${plural(days, "day")}.`
    save(`The file was imported. ${news}${rest}`, "merge", record)
  }

  on("[data-mark]", "change", ({ checked, dataset }) => {
    const others = keys.filter((key) => key !== dataset.mark)
    const last = checked && others.every((key) => current().done[key])
    const change = checked ? "mark" : "unmark"
    save(last ? "That was the last page. Well done!" : "", change, dataset.mark, dayOf(new Date()))
  })
  on('[data-progress="streak"]', "change", ({ checked }) => save("", "streak", checked))
  on(".settings [type=file]", "change", (input) => {
    if (input.files[0]) load(input.files[0])
    input.value = "" // or the same file could not be chosen again
  })
  on('[data-progress="reset"]', "click", () => all(".settings dialog").forEach((dialog) => {
    dialog.returnValue = ""
    dialog.showModal()
  }))
  on(".settings dialog", "close", ({ returnValue }) => {
    if (!returnValue) return
    attempt(() => localStorage.removeItem(ASIDE))
    save("Everything was removed.", "reset")
  })

  for (const event of ["storage", "pageshow", "focus", "visibilitychange"]) {
    addEventListener(event, render)
  }
  setInterval(() => { if (dayOf(new Date()) !== today) render() }, 60_000)
  if (!stored().whole) {
    save("Part of what was stored here could not be read. It is kept, as a file on Your progress.")
  } else if (waiting.length) save("")
  else render()
  for (const element of all(".mark, .settings")) element.hidden = false
  for (const element of all(".needs-scripts")) element.hidden = true
})
