/** The maximum number of days before a second factor that was announced is required. */
export const maxGraceDays = 90
