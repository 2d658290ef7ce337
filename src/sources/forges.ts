/** The Git servers whose hooks svc takes, with their names. */
export const forges = {
  github: 'GitHub',
  gitlab: 'GitLab',
  forgejo: 'Forgejo or Gitea',
  bitbucket: 'Bitbucket',
} as const
export type Forge = keyof typeof forges

/** The page of a Git repository on which its hooks are, below its URL. */
const hookPages: Record<Forge, string> = {
  github: 'settings/hooks/new',
  gitlab: '-/hooks',
  forgejo: 'settings/hooks',
  bitbucket: 'admin/webhooks',
}

/** Returns which Git server the host of a URL seems to be. Null when its name does not say. */
export function guessForge(url: string): Forge | null {
  const { hostname } = new URL(url)
  if (/github/.test(hostname)) return 'github'
  if (/gitlab/.test(hostname)) return 'gitlab'
  if (/forgejo|gitea|codeberg/.test(hostname)) return 'forgejo'
  return /bitbucket/.test(hostname) ? 'bitbucket' : null
}

/** Returns the URL of the page on which a Git server adds a hook to the Git repository with this URL. */
export function hookPageOf(forge: Forge, url: string): string {
  const { protocol, hostname, host, pathname } = new URL(url)
  const origin = protocol === 'ssh:' ? `https://${hostname}` : `${protocol}//${host}`
  return `${origin}${pathname.replace(/\/+$/, '').replace(/\.git$/, '')}/${hookPages[forge]}`
}
