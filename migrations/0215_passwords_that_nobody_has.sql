-- Accounts that were created by a sign-in with a provider had a hash that nobody's password matches. In steps, because
-- every request with a token reads these rows. This is no change of a password: it writes no event.
do $$
declare
  done_to bigint := 0;
  step_to bigint;
begin
  loop
    select max(id) into step_to from (select id from account where id > done_to order by id limit 1000) as step;
    exit when step_to is null;
    perform set_config('svc.is_rehash', 'on', true);
    update account set password_hash = null
     where id > done_to and id <= step_to
       and password_hash = '$argon2id$v=19$m=19456,p=1,t=2$zkY1icGpUMymFBlYwv7JiQ$kEpWsGuzHeS+BEd2N9QKnOHJO9MsW7ISXlU+6Q7t9KU';
    commit;
    done_to := step_to;
  end loop;
end
$$;
