-- What people name and describe reaches terminals and other people's pages: no control character gets in.

create function is_plain_text(words text) returns boolean
language sql immutable parallel safe as $$
  select words !~ '[\u0001-\u001f\u007f-\u009f]'
$$;

-- An old one becomes a blank; a token's name stays the only one of its account, and at most 100 characters.
update account set display_name = regexp_replace(display_name, '[\u0001-\u001f\u007f-\u009f]', ' ', 'g')
 where not is_plain_text(display_name);
update repository set description = regexp_replace(description, '[\u0001-\u001f\u007f-\u009f]', ' ', 'g')
 where not is_plain_text(description);
update personal_token
   set name = left(regexp_replace(name, '[\u0001-\u001f\u007f-\u009f]', ' ', 'g'), 79) || ' ' || id
 where not is_plain_text(name);

alter table account add constraint display_name_is_plain_text check (is_plain_text(display_name));
alter table repository add constraint repository_description_is_plain_text check (is_plain_text(description));
alter table personal_token add constraint personal_token_name_is_plain_text check (is_plain_text(name));
