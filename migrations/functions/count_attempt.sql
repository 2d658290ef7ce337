-- Counts one attempt against each key, in order, and stops at the first key that is over its limit. Returns for how
-- many seconds that key is blocked, or 0 when the attempt is allowed. Pass broad keys first: then a blocked network
-- writes no more rows and does not use up the limits of others. All callers lock the rows in the same order.
create or replace function count_attempt(keys bytea[], limits integer[], window_seconds integer[]) returns integer
language plpgsql as $$
declare
  counted auth_failure;
begin
  for i in 1 .. cardinality(keys) loop
    insert into auth_failure as f (key_hash, failures, window_ends_at)
    values (keys[i], 1, now() + make_interval(secs => window_seconds[i]))
    on conflict (key_hash) do update
      set failures = case when f.window_ends_at > now() then f.failures + 1 else 1 end,
          window_ends_at = case when f.window_ends_at > now() then f.window_ends_at else excluded.window_ends_at end
    returning * into counted;
    if counted.failures > limits[i] then
      return greatest(1, ceil(extract(epoch from counted.window_ends_at - now())))::integer;
    end if;
  end loop;
  return 0;
end
$$;
