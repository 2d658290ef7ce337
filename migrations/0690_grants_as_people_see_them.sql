-- What people see of each grant (OPENID 211), and the grant with which an application has signed a session in (OPENID 258).
alter table authorization_grant add column device_ip inet;
comment on column authorization_grant.device_ip is
  'The client IP of the device whose request was approved (RFC 8628). Null for a grant of a browser.';

alter table openid_session add column grant_id bigint;
comment on column openid_session.grant_id is
  'Of the last sign-in. Null in a row of the previous release: it ends with any grant for the scope openid. No foreign key: it ends with the grant.';
