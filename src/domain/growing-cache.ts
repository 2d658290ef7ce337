/**
 * Returns options of an `LRUCache` that keeps up to `count` values and grows with them. With `max`, it would take the
 * memory of all of them when it is opened, which for the caches of a process is a tenth of the time that a server needs
 * to build its routes.
 */
export function keepUpTo(count: number): { maxSize: number; sizeCalculation: () => number } {
  return { maxSize: count, sizeCalculation: () => 1 }
}
