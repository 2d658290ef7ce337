-- Explains why refresh_pairs made no pair for a call: returns the outcome of each call whose new pair is not stored, and
-- for a repeated one the pair of the first use. Changes nothing.
create or replace function explain_refused_refreshes(
  client_ids text[], secret_hashes bytea[], refresh_hashes bytea[], asked_scopes text[], next_refresh_hashes bytea[],
  grace_seconds integer, asked_resources text[])
returns table (call_number integer, outcome text, scope text, expires_in integer, sealed_pair bytea,
               authorization_id bigint)
language sql stable as $$
  select call.n::integer, explained.outcome, successor.scope, successor.expires_in,
         case when successor.scope is not null then call.sealed_successor end, call.authorization_id
    from presented_pairs(client_ids, secret_hashes, refresh_hashes, asked_scopes, asked_resources) as call
   -- Use clock_timestamp(): now() is when the statement began. A racing request may have ended the pair since then.
   cross join lateral (
     select case
              when call.client is null then 'invalid_client'
              when call.is_own is not true or call.is_ended then 'invalid_grant'
              -- A used token expires with its grace period: refresh_pairs has shortened its life.
              when call.refresh_expires_at > clock_timestamp() then
                case
                  when not call.is_live then 'invalid_grant'
                  when not call.is_covered then 'invalid_scope'
                  when not call.is_targeted then 'invalid_target'
                  when call.superseded_at is not null then 'repeated'
                  else 'invalid_grant'
                end
              -- The use of an expired token alone is no sign of theft.
              when call.superseded_at + make_interval(secs => grace_seconds) <= now() then 'reused'
              else 'invalid_grant'
            end as outcome) as explained
    left join lateral (
      select array_to_string(s.access_scopes, ' ') as scope,
             greatest(0, floor(extract(epoch from s.access_expires_at - now())))::integer as expires_in
        from granted_pair s
       where explained.outcome = 'repeated' and s.id = call.successor_id
       limit 1) as successor on true
   where not exists (select from token_pair p where p.refresh_hash = next_refresh_hashes[call.n])
$$;
