-- Returns the details of an event for readers: with the username of an application's developer instead of the id. The event
-- keeps the id, so that no event has the name of a deleted account.
create or replace function named_details(the_details jsonb) returns jsonb language sql stable as $$
  select case when not the_details ? 'developer_id' then the_details else
           the_details - 'developer_id'
           || jsonb_build_object(
                'developer', account_name_of(the_details -> 'developer_id'),
                'changed', replace(the_details ->> 'changed', '"developer_id"', '"developer"')::jsonb,
                'from', (the_details -> 'from') - 'developer_id'
                        || jsonb_build_object('developer', account_name_of(the_details #> '{from,developer_id}')))
         end;
$$;
