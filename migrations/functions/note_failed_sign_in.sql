-- For the previous release, which counts a failed sign-in with it.
create or replace function note_failed_sign_in(
  the_account_id bigint, the_network text, the_via text, the_address inet, the_user_agent text, the_request_id text)
returns void language sql as $$
  select note_counted_event('sign-in-failed', the_account_id, the_network, '',
                            jsonb_build_object('via', the_via, 'ip', host(the_address), 'userAgent', the_user_agent,
                                               'requestId', the_request_id));
$$;
