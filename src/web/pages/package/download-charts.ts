import type { DailyDownloads } from '../../../packages/tables/downloads.ts'

/** The number of days, and of versions, in the charts. */
export const chartDays = 30
export const chartVersions = 12

/** A bar of a chart. */
interface Bar {
  label: string
  count: number
}

/** The charts of downloads on the page of a package, of the repository itself or of an upstream. */
export interface DownloadCharts {
  days: Bar[]
  /** The newest versions, from the oldest to the newest. */
  versionBars: Bar[]
  /** The first day that was counted, when it is one of the chart. */
  countedSince: string | null
}

/** Returns the charts of the days, today last, and of the versions, the newest first. */
export function chartDownloads(
  days: readonly DailyDownloads[],
  versions: readonly { version: string; downloads: number }[],
  firstDay: string | null = null,
): DownloadCharts {
  return {
    days: days.map(({ day, count }) => ({ label: day, count })),
    versionBars: versions
      .slice(0, chartVersions)
      .toReversed()
      .map(({ version, downloads }) => ({ label: version, count: downloads })),
    countedSince: firstDay !== null && days.some(({ day }) => day < firstDay) ? firstDay : null,
  }
}
