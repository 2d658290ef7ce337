/**
 * What people can be told about by mail, with the words of pages. The SQL view `notification_rule` has the events of each
 * topic, and who is told.
 */
export const topics = {
  releases: {
    words: 'Releases',
    hint: 'New versions in the repositories that you watch. Development versions are left out.',
  },
  approvals: {
    words: 'Approvals',
    hint: 'What waits for a decision that you may make: staged versions, requested packages of upstreams and, for site administrators, applications.',
  },
  alarms: {
    words: 'Alarms',
    hint: 'What fails in the groups and repositories that you administer: upstreams, Git sources, webhooks and reserved names. And applications that you develop, when they do not accept logout tokens.',
  },
  advisories: {
    words: 'Security',
    hint: 'Advisories and quarantined versions of the repositories that you watch or administer, and projects of your groups that install them.',
  },
  tokens: {
    words: 'Tokens',
    hint: 'Your tokens that expire soon, and new and expiring tokens of the groups and repositories that you administer.',
  },
} as const

export type Topic = keyof typeof topics

export const topicNames = Object.keys(topics) as Topic[]

/** How a person is told: not at all, within minutes, or in the one mail of a day. */
export const deliveries = { off: 'Off', at_once: 'At once', daily: 'Daily digest' } as const

export type NewsDelivery = keyof typeof deliveries

export const deliveryNames = Object.keys(deliveries) as NewsDelivery[]
