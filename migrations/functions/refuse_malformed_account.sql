-- Throws the error of a constraint of the table account when one of the values breaks it. Null is no value. Returns
-- true when all are well-formed. Statements call it before they write an account: for a broken constraint, PostgreSQL
-- writes the whole row with its password hash into its log and into the error.
create or replace function refuse_malformed_account(the_username text, the_display_name text, the_email text)
returns boolean language plpgsql as $$
declare
  broken constant text := case
    when the_username !~ '^[a-z0-9](?:[._-]?[a-z0-9])*$' or char_length(the_username) > 39
      then 'username_is_well_formed'
    when char_length(the_display_name) > 100 then 'display_name_max_100_characters'
    when not is_plain_text(the_display_name) then 'display_name_is_plain_text'
    when char_length(the_email) > 254 or the_email !~ '^[^@[:space:][:cntrl:]]+@[^@[:space:][:cntrl:]]+$'
      then 'email_is_an_address_max_254_characters'
  end;
begin
  if broken is not null then
    raise check_violation using constraint = broken, table = 'account',
      message = format('the new account or its change violates the constraint %I', broken);
  end if;
  return true;
end
$$;
