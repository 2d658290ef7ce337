-- What acts writes its identity event: accounts, sessions, second factors, linked identities, invitations and personal
-- access tokens need no triggers for them.
drop trigger identity_event_of_account on account;
drop trigger identity_event_of_session on session;
drop trigger identity_event_of_totp_factor on totp_factor;
drop trigger identity_event_of_passkey on passkey;
drop trigger identity_event_of_account_identity on account_identity;
drop trigger identity_event_of_invitation on invitation;
drop trigger identity_event_of_personal_token on personal_token;
drop trigger identity_event_of_first_use on personal_token;
drop function note_account_event();
drop function note_session_event();
drop function note_factor_event();
drop function note_account_identity_event();
drop function note_invitation_event();
drop function note_personal_token_event();
comment on column event.via is
  'application: the application of the event acted, at an OAuth endpoint. Null: unknown, or svc itself.';
