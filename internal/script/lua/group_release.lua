-- Free several locks. The functions that free each of them precede this script.
-- KEYS  the keys of all calls, one after the other
-- ARGV  1 PUBLISH or SPUBLISH
--       then for each lock the call that frees it: the name of the script, the number of its
--       keys, the number of its arguments, and the arguments
-- RETURN  how many were held
local view = through(function(name, command, ...)
  if command == 'PUBLISH' then command = ARGV[1] end
  return redis[name](command, ...)
end)
local held = 0
for _, call in ipairs(calls(2)) do
  local ok, reply = call(view)
  if ok and type(reply) == 'number' and reply > 0 then held = held + 1 end -- a failure must not prevent the release of the others
end
return held
