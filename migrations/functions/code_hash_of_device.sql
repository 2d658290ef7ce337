-- Returns the hash of the code that the approval of a device makes, from the hash of its device code. No client can present it
-- as a code.
create or replace function code_hash_of_device(device_hash bytea) returns bytea
language sql immutable parallel safe as $$
  select sha256(device_hash)
$$;
