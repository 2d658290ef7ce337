import { join, resolve } from 'node:path'

/** Where a DATA_DIR keeps its PostgreSQL. */
export interface ClusterPaths {
  folder: string
  cluster: string
  password: string
  log: string
}

/** The paths below DATA_DIR/postgres, absolute. */
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
 * The path by which PostgreSQL finds its cluster when started in it. On Linux that is its working directory, so that
 * it never walks the folders above, which its user may not be allowed to enter (a DATA_DIR below /root).
 */
export function clusterArgument(cluster: string): string {
  return process.platform === 'linux' ? '/proc/self/cwd' : cluster
}
