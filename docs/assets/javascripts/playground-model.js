/* One query through the lesson's attention, in float32 as in PyTorch. Knows nothing of the page. */
const playgroundModel = (() => {
  const MAX_LEN = 48
  const UNK = 1
  const DIM = 16

  // What Python's \w+|[^\w\s] finds. Its \s has the separators U+001C to U+001F and U+0085, and
  // not the byte order mark U+FEFF, which JavaScript's has.
  const TOKEN = /[\p{L}\p{N}_]+|[^\p{L}\p{N}_\s\x1c-\x1f\x85]|\ufeff/gu

  // The settings that change nothing: what each switch is compared with.
  const PLAIN = { scale: "root", pads: 0, mask: "keys", fill: -Infinity, causal: "off", order: [] }

  const tokenize = (text) => text.toLowerCase().match(TOKEN) ?? []

  // From the script that the build makes: the words by id, and all numbers in one row as float32.
  const layer = ({ words, floats }) => {
    const bytes = Uint8Array.from(atob(floats), (letter) => letter.charCodeAt(0))
    const numbers = new Float32Array(bytes.buffer)
    const vocab = new Map(words.split(" ").map((word, id) => [word, id]))
    let at = 0
    const row = () => numbers.subarray(at, (at += DIM))
    const matrix = (rows) => Array.from({ length: rows }, row)
    const linear = () => ({ weight: matrix(DIM), bias: row() })
    const embedding = matrix(vocab.size)
    return { vocab, embedding, query: linear(), key: linear(), value: linear() }
  }

  const dot = (a, b) => a.reduce((sum, entry, i) => sum + entry * b[i], 0)
  const apply = ({ weight, bias }, x) => x.map((row) => bias.map((b, i) => b + dot(row, weight[i])))
  const transpose = (x) => Array.from(x[0], (_, j) => Float32Array.from(x, (row) => row[j]))
  // Rows of a times rows of b; every entry is rounded to float32 as it is stored.
  const products = (a, b) => a.map((row) => Float32Array.from(b, (other) => dot(row, other)))

  // A row of minus infinity alone gives nan, as in PyTorch.
  const softmax = (row) => {
    const largest = Math.max(...row)
    const shares = row.map((score) => Math.exp(Math.fround(score - largest)))
    const total = shares.reduce((sum, share) => sum + share, 0)
    return shares.map((share) => share / total)
  }

  const DIVISORS = { root: () => Math.sqrt(DIM), none: () => 1, d: () => DIM, seq: Math.sqrt }

  // A place may be asked for once; anything else leaves the words as they were typed.
  const permutation = (order, length) => {
    const sorted = [...order].sort((a, b) => a - b)
    const right = order.length === length && sorted.every((place, i) => place === i)
    return right ? order : Array.from({ length }, (_, i) => i)
  }

  const blocks = ({ mask, causal }, isPad) => (i, j) =>
    (mask === "keys" && isPad[j]) ||
    (mask === "rows" && isPad[i]) ||
    (causal !== "off" && (causal === "diagonal" ? j >= i : j > i))

  // All that a query goes through. `text` must hold a token; `order[place]` is the typed place of
  // the token that now stands there. Matrices are rows of float32, for real tokens and pads.
  const run = ({ vocab, embedding, query, key, value }, text, settings) => {
    const all = tokenize(text)
    const typed = all.slice(0, MAX_LEN)
    const order = permutation(settings.order, typed.length)
    const tokens = order.map((place) => typed[place])
    const pads = Math.min(settings.pads, MAX_LEN - typed.length)
    const ids = [...tokens.map((token) => vocab.get(token) ?? UNK), ...Array(pads).fill(0)]

    const x = ids.map((id) => embedding[id])
    const scores = products(apply(query, x), apply(key, x))
    const divisor = DIVISORS[settings.scale](ids.length)
    const scaled = scores.map((row) => row.map((score) => score / divisor))
    const isBlocked = blocks(settings, ids.map((id) => id === 0))
    const blocked = ids.map((_, i) => ids.map((_, j) => isBlocked(i, j)))
    const masked = scaled.map((row, i) =>
      row.map((score, j) => (blocked[i][j] ? settings.fill : score)))
    const weights = masked.map(softmax)
    const output = products(weights, transpose(apply(value, x)))
    const cut = all.length - typed.length
    return { tokens, ids, order, pads, cut, divisor, scores, scaled, blocked, masked, weights, output }
  }

  // Two nan are as far apart as two equal numbers: what made them is not what is measured.
  const distance = (a, b) => (Number.isNaN(a) && Number.isNaN(b) ? 0 : Math.abs(a - b))

  // How far each token's output is from the same token's in another run, by place: the largest
  // distance of its entries.
  const moves = (one, other) =>
    one.order.map((typed, place) => {
      const there = other.output[other.order.indexOf(typed)]
      return Math.max(...one.output[place].map((entry, i) => distance(entry, there[i])))
    })

  // Each token's distance from the plain query, and for each switch how far the outputs come back
  // when it alone is made plain.
  const effects = (layer, text, settings) => {
    const here = run(layer, text, settings)
    const moved = moves(here, run(layer, text, PLAIN))
    const alone = (name) => {
      const there = run(layer, text, { ...settings, [name]: PLAIN[name] })
      return Math.max(...moves(here, there))
    }
    const switches = Object.fromEntries(Object.keys(PLAIN).map((name) => [name, alone(name)]))
    return { here, moved, switches }
  }

  return { MAX_LEN, UNK, tokenize, layer, run, effects }
})()
