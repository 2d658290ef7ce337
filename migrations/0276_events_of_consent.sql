-- What approves a request, ends an authorization, or makes, revokes or uses a deploy token writes the identity event.
drop trigger identity_event_of_grant on authorization_grant;
drop trigger identity_event_of_authorization on account_authorization;
drop trigger identity_event_of_deploy_token on deploy_token;
drop trigger identity_event_of_first_use on deploy_token;
drop function note_grant_event();
drop function note_authorization_event();
drop function note_deploy_token_event();
