/**
 * Returns the median. For an even number of values, it is the higher one of the two in the middle. Zero without values.
 */
export function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0
}

/**
 * Returns the median of the ratios of two lists, whose values of one round were measured one after the other. The speed
 * of a shared machine can double between rounds, but hardly changes within one.
 */
export function medianRatio(values: readonly number[], ofOthers: readonly number[]): number {
  return median(values.map((value, round) => value / (ofOthers[round] ?? Number.NaN)))
}

/** Returns the items in their order in even rounds, and in reverse in odd ones, so that none is always the first. */
export function inTurn<Item>(items: readonly Item[], round: number): Item[] {
  return round % 2 === 0 ? [...items] : items.toReversed()
}
