-- Deploy tokens get notices before they expire, as personal access tokens do.
alter table deploy_token add column expiry_noted_at timestamptz;
comment on column deploy_token.expiry_noted_at is 'When an event last told that it expires soon.';
comment on column personal_token.expiry_noted_at is 'When an event, or in earlier releases a mail, last told that it expires soon.';
