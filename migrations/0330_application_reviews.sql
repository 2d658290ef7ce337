-- The developer of an application sees its state, and it is kept who reviewed it and when. The events of a review are removed
-- after EVENT_RETENTION_DAYS.
alter table application
  add column developer_id bigint references account (id) on delete set null,
  add column reviewer_id  bigint references account (id) on delete set null,
  add column reviewed_at  timestamptz;
create index application_of_developer on application (developer_id) where developer_id is not null;
create index application_of_reviewer on application (reviewer_id) where reviewer_id is not null;
comment on column application.developer_id is 'The account that asked for it, and sees its state.';
comment on column application.reviewer_id is 'The account that set its status last. Null for a command, and while it is pending.';
create function note_application_review() returns trigger language plpgsql as 'begin return new; end';
create trigger application_is_reviewed
  before insert or update of status on application
  for each row execute function note_application_review();
