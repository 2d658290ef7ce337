import { deleteExpiredVerifications, verificationMail } from '../../accounts/email-verifications.ts'
import { deleteExpiredInvitations } from '../../accounts/invitations.ts'
import { invitationMail } from '../../accounts/invite.ts'
import { passwordResetMail, requestPasswordResetJob } from '../../accounts/password-reset-mail.ts'
import { deleteExpiredResets } from '../../accounts/password-resets.ts'
import {
  confirmationMail,
  deleteExpiredConfirmationLinks,
} from '../../accounts/second-factor/confirmation-links.ts'
import { deleteExpiredHeldForms } from '../../accounts/second-factor/held-forms.ts'
import { deleteExpiredChallenges } from '../../accounts/second-factor/passkey-challenges.ts'
import { deleteExpiredSteps } from '../../accounts/second-factor/sign-in-steps.ts'
import { logIdentityEventsJob, securityNotice } from '../../accounts/security-notices.ts'
import { deleteExpiredSessions } from '../../accounts/sessions.ts'
import { knownAddressMail, requestSignUpJob } from '../../accounts/sign-ups.ts'
import { deleteExpiredProofs, deleteExpiredSignIns } from '../../accounts/single-sign-on/pending-sign-ins.ts'
import { noteExpiringTokensJob } from '../../accounts/token-expiry-notices.ts'
import { collectGarbageJob } from '../../archives/collect-garbage.ts'
import { removePurgedJob } from '../../archives/remove-purged.ts'
import { scrubArchivesJob } from '../../archives/scrub-archives.ts'
import { deleteExpiredAttempts } from '../../database/failure-limit.ts'
import { deleteFormerCounts } from '../../events/counted-events.ts'
import { sweepEventsJob } from '../../events/sweep-events.ts'
import {
  deleteFormerFactorNotices,
  noteRequiredFactorsJob,
  requiredFactorMail,
} from '../../groups/factor-requirement.ts'
import { removeExpiredRepositoriesJob } from '../../groups/group-lifecycle.ts'
import { sweepJob } from '../../jobs/expired-rows.ts'
import type { Job } from '../../jobs/job.ts'
import { sendMailJobs } from '../../mail/mail-queue.ts'
import { digestMail, formerMails, newsMail } from '../../notifications/news-mail.ts'
import { deleteFormerNews, sendDigestsJob, tellPeopleJob } from '../../notifications/tell-people.ts'
import { deleteUnusedApplications } from '../../oauth/applications.ts'
import { deleteExpiredRequests } from '../../oauth/authorization-requests.ts'
import { deleteForgottenDocuments } from '../../oauth/client-documents.ts'
import { deleteExpiredDevices } from '../../oauth/device-requests.ts'
import { noteExchangesJob } from '../../oauth/exchange-events.ts'
import {
  deleteEndedAuthorizations,
  deleteEndedGrants,
  deleteSupersededGrants,
} from '../../oauth/grant-sweeps.ts'
import { deleteExpiredCodes, deleteExpiredPairs, wipeSeals } from '../../oauth/token-sweeps.ts'
import { deleteRetiredKeys, rotateKeysJob } from '../../openid/keys.ts'
import { sendLogoutTokenJob } from '../../openid/logouts.ts'
import { deleteExpiredOpenidSignIns } from '../../openid/sign-ins.ts'
import { renderOutdatedJob } from '../../packages/documents/rerender.ts'
import { applyRetentionJob } from '../../packages/lifecycle/retention.ts'
import { renderReadmesJob } from '../../packages/readmes/render-readme.ts'
import { expireStagesJob } from '../../packages/stages/expire.ts'
import { deleteExpiredUploads } from '../../packages/tables/browser-uploads.ts'
import { rankPackagesJob, rollDownloadsJob } from '../../packages/tables/downloads.ts'
import { deleteOldDownloads } from '../../packages/tables/recorded-downloads.ts'
import { countSiteDaysJob } from '../../packages/tables/site-days.ts'
import { deleteDecidedStages } from '../../packages/tables/staged-versions.ts'
import { deleteFormerArchives } from '../../packages/tables/versions.ts'
import {
  checkAllProjectsJob,
  checkProjectsJob,
  deleteUnusedLockedPackages,
} from '../../projects/check-projects.ts'
import { deleteFormerFindings } from '../../projects/findings.ts'
import {
  deleteExpiredIdentityTokens,
  deleteExpiredPublisherTokens,
} from '../../publishers/publisher-tokens.ts'
import { noteLapsingReservationsJob } from '../../publishers/reservation-notices.ts'
import { readDueSourcesJob, readSourceJob } from '../../sources/read-source.ts'
import {
  askEarlierUpstream,
  askEarlierUpstreams,
  followFeeds,
  followSlowUpstream,
  followUpstream,
  refreshUpstream,
  releaseUnusedArchives,
  renderDueMirrors,
} from '../../upstreams/follow-feeds.ts'
import { deleteExpiredMisses } from '../../upstreams/tables/upstream-documents.ts'
import { deleteOldDeliveries } from '../../webhooks/deliveries.ts'
import { sendSlowWebhookJob, sendWebhookJob } from '../../webhooks/send-webhook.ts'

/** Every background job of the server. `jobs/job.ts` describes how to add one. */
export const jobs: readonly Job[] = [
  sweepJob([
    wipeSeals,
    deleteExpiredPairs,
    deleteExpiredCodes,
    deleteEndedGrants,
    deleteEndedAuthorizations,
    deleteSupersededGrants,
    deleteExpiredRequests,
    deleteExpiredDevices,
    deleteForgottenDocuments,
    deleteUnusedApplications,
    deleteExpiredSessions,
    deleteExpiredResets,
    deleteExpiredVerifications,
    deleteExpiredConfirmationLinks,
    deleteExpiredHeldForms,
    deleteExpiredSteps,
    deleteExpiredChallenges,
    deleteExpiredSignIns,
    deleteExpiredProofs,
    deleteExpiredInvitations,
    deleteExpiredAttempts,
    deleteFormerCounts,
    deleteFormerFactorNotices,
    deleteExpiredMisses,
    deleteOldDownloads,
    deleteFormerArchives,
    deleteExpiredUploads,
    deleteDecidedStages,
    deleteExpiredPublisherTokens,
    deleteExpiredIdentityTokens,
    deleteOldDeliveries,
    deleteUnusedLockedPackages,
    deleteFormerFindings,
    deleteRetiredKeys,
    deleteExpiredOpenidSignIns,
    deleteFormerNews,
  ]),
  removeExpiredRepositoriesJob,
  collectGarbageJob,
  removePurgedJob as Job,
  scrubArchivesJob,
  renderOutdatedJob,
  rollDownloadsJob,
  rankPackagesJob,
  countSiteDaysJob,
  sweepEventsJob,
  renderReadmesJob,
  expireStagesJob,
  applyRetentionJob,
  followFeeds,
  followUpstream as Job,
  followSlowUpstream as Job,
  refreshUpstream as Job,
  askEarlierUpstreams,
  askEarlierUpstream as Job,
  renderDueMirrors,
  releaseUnusedArchives,
  logIdentityEventsJob,
  noteExchangesJob,
  rotateKeysJob,
  sendLogoutTokenJob as Job,
  requestPasswordResetJob as Job,
  requestSignUpJob as Job,
  noteExpiringTokensJob,
  noteRequiredFactorsJob,
  tellPeopleJob,
  sendDigestsJob,
  noteLapsingReservationsJob,
  readDueSourcesJob,
  readSourceJob as Job,
  sendWebhookJob as Job,
  sendSlowWebhookJob as Job,
  checkAllProjectsJob,
  checkProjectsJob as Job,
  ...sendMailJobs([
    verificationMail,
    confirmationMail,
    passwordResetMail,
    securityNotice,
    requiredFactorMail,
    invitationMail,
    knownAddressMail,
    newsMail,
    digestMail,
    ...formerMails,
  ]),
]
