/** The filter list that Composer blocks by default, on update and on install from a lock file (COMPOSER A8). */
export const quarantineList = 'malware'
