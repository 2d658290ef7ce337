-- Trigger function of account. When the account gains or loses the role of a site administrator, its admin tokens end. So
-- none of them works again when the account gets the role back.
create or replace function end_admin_tokens() returns trigger language plpgsql as $$
begin
  update personal_token set revoked_at = now() where account_id = new.id and is_admin and revoked_at is null;
  return null;
end
$$;
