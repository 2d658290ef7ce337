-- Returns whether a token request gets these resources, which are separated by spaces: they exist for the account, and what was
-- granted covers them. It is not inlined, so requests without resources do not pay for its queries.
create or replace function may_have_resources(the_account_id bigint, granted text[], asked text) returns boolean
language plpgsql stable as $$
begin
  return asked <> '' and covers_resources(granted, string_to_array(asked, ' '))
     and are_resources_of(the_account_id, string_to_array(asked, ' '));
end
$$;
