-- Probe leases of one target. args: 1, 2 the time or -1; 3 the operation; 4, 5 the halves of the episode; 6 the stage, 7 the
-- number of probes requested, 8 the number of probes in the stage, 9 the node, 10 the TTL.
-- Stored: the halves of the latest episode, its stage, then for every node with probes: its id, their number, their expiry.
local args = cmsgpack.unpack(ARGV[1])
--TIME
local function decide()
  local raw = redis.call('GET', KEYS[1])
  local stored = raw and cmsgpack.unpack(raw) or { 0, 0, 0 }
  local later = 0
  for pos = 1, 3 do
    if later == 0 then
      if args[pos + 3] > stored[pos] then later = 1 elseif args[pos + 3] < stored[pos] then later = -1 end
    end
  end
  if args[3] == 2 and (later ~= 0 or not raw) then return { 0 } end
  if later < 0 then return { 0 } end
  local kept, taken = { args[4], args[5], args[6] }, 0
  if later == 0 then
    for pos = 4, #stored, 3 do
      if stored[pos] ~= args[9] and stored[pos + 2] > mono then
        taken = taken + stored[pos + 1]
        for part = 0, 2 do kept[#kept + 1] = stored[pos + part] end
      end
    end
  end
  local granted = 0
  if args[3] == 1 then
    granted = math.max(math.min(args[7], args[8] - taken), 0)
    if granted > 0 then
      kept[#kept + 1], kept[#kept + 2], kept[#kept + 3] = args[9], granted, mono + args[10]
    end
  end
  redis.call('SET', KEYS[1], cmsgpack.pack(kept), 'PX', 86400000)
  return { granted }
end
local ok, answer = pcall(decide)
if ok then return answer end
-- The leases are unknown, so no node may probe until they would have expired.
redis.call('SET', KEYS[1], cmsgpack.pack({ args[4], args[5], args[6], '', args[8], mono + args[10] }), 'PX', 86400000)
return { 9, tostring(answer) }
