/**
 * Returns whether a text matches a pattern. `*` matches any characters. The time is at most the product of the lengths.
 * A regular expression with many `.*` could run forever, and patterns also come from upstreams.
 */
export function matchesGlob(pattern: string, text: string): boolean {
  let [p, t, star, resume] = [0, 0, -1, 0]
  while (t < text.length) {
    if (pattern[p] === '*') {
      star = p++
      resume = t
    } else if (pattern[p] === text[t]) {
      p++
      t++
    } else if (star >= 0) {
      p = star + 1
      t = ++resume
    } else return false
  }
  while (pattern[p] === '*') p++
  return p === pattern.length
}
