-- Run several calls of one script. The function call, which runs one of them, precedes this script. Where there is one, so does the
-- function all, which runs all of them if this is the usual case, and returns nil if it has done nothing.
-- KEYS  the keys of all calls, one after the other
-- ARGV  1 how many keys a call has
--       2 how many arguments a call has
--       3 PUBLISH or SPUBLISH
--       4 which argument of a call is the publish command, 0 if none
--       5 which arguments differ between the calls, a digit for each
--       6 the arguments of the first call
--       then for each other call the arguments that differ
-- RETURN  a list: the indexes of the calls that have failed, then the replies of all calls; or one reply, if it is that of all calls
local nkeys, nargs, publish = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4])
local count = #KEYS / nkeys

-- result returns the reply, given those of the calls. It is shorter if all are the same number.
local function result(failed, replies)
  local first = replies[1]
  if type(first) == 'number' and #failed == 0 then
    for i = 2, count do
      if replies[i] ~= first then first = nil end
    end
    if first then return { failed, first } end
  end
  return { failed, unpack(replies) }
end

local replies = all and all(count)
if replies then return result({}, replies) end
local failed, keys, args, differ = {}, {}, {}, {}
replies = {}
for j = 1, nargs do args[j] = ARGV[5 + j] end
if publish > 0 then args[publish] = ARGV[3] end
for j = 1, #ARGV[5] do differ[j] = tonumber(string.sub(ARGV[5], j, j)) end
local key, arg = 0, 5 + nargs
for i = 1, count do
  for j = 1, nkeys do keys[j] = KEYS[key + j] end
  key = key + nkeys
  if i > 1 then
    for j, at in ipairs(differ) do args[at] = ARGV[arg + j] end
    arg = arg + #differ
  end
  -- A failed call must not prevent the others. It is sent again alone, so its error need not be returned.
  local ok, reply = pcall(call, keys, args)
  if not ok or type(reply) == 'table' and reply.err then
    failed[#failed + 1] = i
    reply = false
  end
  replies[i] = reply or false
end
return result(failed, replies)
