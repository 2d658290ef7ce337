-- The events of registries that name an account, for the deletion of accounts. It is built beside running publications.
create index concurrently event_with_username on registry_event ((details ->> 'username')) where details ? 'username';
