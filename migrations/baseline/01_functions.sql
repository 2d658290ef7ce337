-- Placeholders of the functions that triggers call. The definitions are in functions/. They need tables, so they replace the
-- placeholders later in the same transaction.

do $$
declare
  name text;
begin
  foreach name in array array[
    -- accounts, groups and tokens
    'end_grants', 'forget_email_verification', 'refuse_reserved_group_name', 'refuse_reserved_repository_name',
    'refuse_reserved_username', 'reserve_group_name', 'reserve_username',
    -- packages and upstreams
    'add_to_download_totals', 'add_to_package_days', 'claim_vendor_of_package', 'flag_bound_package',
    'note_dependencies', 'note_quarantine', 'rank_new_packages', 'set_repository_of_document',
    -- events
    'note_account_event', 'note_account_identity_event', 'note_application_event', 'note_application_secret_event',
    'note_authorization_event', 'note_deploy_token_event', 'note_factor_event', 'note_grant_event',
    'note_invitation_event', 'note_personal_token_event', 'note_session_event', 'queue_event_for_log',
    'refuse_change', 'refuse_event_change'
  ]
  loop
    execute format('create function %I() returns trigger language plpgsql as ''begin return new; end''', name);
  end loop;
end
$$;
