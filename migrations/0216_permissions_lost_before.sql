-- Applications that were suspended or lost scopes before 0096: their authorizations end, and their grants lose the scopes.
-- In steps, because requests write these rows.
do $$
declare
  done_to bigint := 0;
  step_to bigint;
begin
  loop
    select max(id) into step_to
      from (select id from account_authorization where id > done_to order by id limit 1000) as step;
    exit when step_to is null;
    update account_authorization a
       set ended_at = now()
      from application c
     where a.id > done_to and a.id <= step_to
       and c.id = a.application_id and c.status <> 'approved' and a.ended_at is null;
    commit;
    done_to := step_to;
  end loop;
  done_to := 0;
  loop
    select max(id) into step_to
      from (select id from authorization_grant where id > done_to order by id limit 1000) as step;
    exit when step_to is null;
    update authorization_grant g
       set scopes = kept.scopes
      from (select o.id, array(select s from unnest(o.scopes) as s where s = any (c.scopes) or s || 'w' = any (c.scopes)) as scopes
              from authorization_grant o
              join application c on c.id = o.application_id
             where o.id > done_to and o.id <= step_to and o.ended_at is null and not o.scopes <@ c.scopes) as kept
     where g.id = kept.id and cardinality(kept.scopes) > 0;
    commit;
    done_to := step_to;
  end loop;
end
$$;
