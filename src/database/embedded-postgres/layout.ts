import { join, resolve } from 'node:path'

/** The paths of the embedded PostgreSQL in a DATA_DIR. */
export interface ClusterPaths {
  folder: string
  cluster: string
  password: string
  log: string
}

/** Returns the absolute paths below DATA_DIR/postgres. */
export function clusterPaths(dataDir: string): ClusterPaths {
  const folder = join(resolve(dataDir), 'postgres')
  return {
    folder,
    cluster: join(folder, 'cluster'),
    password: join(folder, 'password'),
    log: join(folder, 'server.log'),
  }
}

/**
 * Returns the path of the cluster for PostgreSQL's command line. PostgreSQL starts in the cluster's folder. On Linux the
 * path is the working directory: its user may not be allowed to enter the folders above, such as /root.
 */
export function clusterArgument(cluster: string): string {
  return process.platform === 'linux' ? '/proc/self/cwd' : cluster
}
