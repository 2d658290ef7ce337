-- An account keeps its latest hundred authorization requests. The index finds the older ones, and replaces the one on the
-- account alone.
create index on authorization_request (account_id, expires_at);
drop index authorization_request_account_id_idx;
