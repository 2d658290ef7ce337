-- Trigger function of application. When it is no longer approved, its authorizations end for good: a later approval
-- revives none. When it loses scopes, its grants lose them, and a grant without scopes ends. Each authorization that ends
-- writes an event. The rows of the authorizations are locked first, in the order that redeem_codes describes.
create or replace function withdraw_lost_permissions() returns trigger language plpgsql as $$
declare
  withdrawn jsonb;
begin
  perform from account_authorization
    where application_id = new.id and ended_at is null
    order by id for no key update;
  if new.status = 'approved' then
    update authorization_grant g
       set scopes = case when kept.scopes = '{}' then kept.former else kept.scopes end,
           ended_at = case when kept.scopes = '{}' then now() end
      from (select o.id, o.scopes as former, narrowed_scopes(o.scopes, new.scopes) as scopes
              from account_authorization a
              join authorization_grant o on o.authorization_id = a.id
             where a.application_id = new.id and a.ended_at is null
               and o.ended_at is null and not o.scopes <@ new.scopes) as kept
     where g.id = kept.id;
  end if;
  with ended as (
    update account_authorization a
       set ended_at = now()
     where a.application_id = new.id and a.ended_at is null
       and (new.status <> 'approved'
            or not exists (select from authorization_grant where authorization_id = a.id and ended_at is null))
    returning a.id, a.account_id
  )
  select jsonb_agg(jsonb_build_object('action', 'authorization-withdrawn', 'account_id', account_id,
                                      'application_id', new.id) order by id)
    into withdrawn
    from ended;
  if withdrawn is not null then
    perform insert_events(withdrawn, nullif(current_setting('svc.actor', true), '')::jsonb);
  end if;
  return null;
end
$$;
