-- Trigger function for append-only tables: fails for every update, delete and truncate. Updates and deletes of the
-- sweep functions are allowed.
create or replace function refuse_change() returns trigger language plpgsql as $$
begin
  if tg_op <> 'TRUNCATE' and current_setting('svc.event_sweep', true) = 'on' then
    return null;
  end if;
  raise exception '% is append-only', tg_table_name using errcode = 'insufficient_privilege';
end
$$;
