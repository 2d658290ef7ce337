/** Runs once before all test files. */
export default async function setup(): Promise<void> {}
