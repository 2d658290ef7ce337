-- The review of applications (SPEC 1.6, 2.1): a registration may be declined, and a state may have a reason.
alter table application
  drop constraint application_status_is_pending_approved_or_suspended,
  add constraint application_status_is_pending_approved_suspended_or_declined
    check (status in ('pending', 'approved', 'suspended', 'declined')),
  add column status_reason text
    constraint application_status_reason_max_350_characters check (char_length(status_reason) <= 350)
    constraint application_status_reason_is_plain_text check (is_plain_text(status_reason));
comment on column application.status_reason is 'Why an administrator suspended or declined it; null when none was given.';
