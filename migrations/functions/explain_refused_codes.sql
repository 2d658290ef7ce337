-- Explains why redeem_codes made no pair for a call: returns the outcome of each call whose pair is not stored. Changes
-- nothing.
create or replace function explain_refused_codes(
  client_ids text[], secret_hashes bytea[], code_hashes bytea[], redirect_uris text[], code_challenges text[],
  refresh_hashes bytea[], asked_resources text[])
returns table (call_number integer, outcome text)
language sql stable as $$
  select call.n::integer,
         case
           when call.client is null then 'invalid_client'
           -- Only a call that could have used the code learns of a replay. A double click, or a proxy that repeats a
           -- request, is not a theft. Such a race ends no pairs and raises no alarm.
           when call.is_granted and call.redeemed_at <= now() - interval '3 seconds' then 'replayed'
           when call.is_granted and call.redeemed_at is null and not call.is_targeted then 'invalid_target'
           else 'invalid_grant'
         end
    from presented_codes(client_ids, secret_hashes, code_hashes, redirect_uris, code_challenges, asked_resources) as call
   where not exists (select from token_pair p where p.refresh_hash = refresh_hashes[call.n])
$$;
